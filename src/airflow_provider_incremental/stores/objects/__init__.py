"""Watermarks in S3, or a service like it: an object for each watermark, which moves by conditional writes."""
