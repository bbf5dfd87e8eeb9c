//! The configuration: the file as it is written, and what it means.
