"""The files of runs and what programs print: CSV rows, records, TensorBoard, progress, errors."""
