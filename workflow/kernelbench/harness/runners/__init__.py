"""The ways to execute a cell, one file each, found by the file's name: what `runner` may say in the config."""
