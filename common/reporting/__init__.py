"""What a run leaves behind and shows: CSV rows, TensorBoard, progress, run record, curves."""
