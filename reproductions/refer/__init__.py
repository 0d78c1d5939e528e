"""ReF-ER: remember and forget for experience replay."""
