"""What programs that talk to language models may ask of releases. It sees what the public reader sees, and no more."""
