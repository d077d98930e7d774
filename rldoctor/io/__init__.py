"""Files and streams: what others may have put there is read with bounds, and what is written is whole."""
