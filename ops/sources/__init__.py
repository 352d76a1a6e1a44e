"""The files, folders and zips that people import."""
