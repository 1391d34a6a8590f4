"""The operations and models that can be measured, one file each, found by the file's name."""
