"""Files that are written whole: secrets, and saved stores."""
