//! One file per system that can be asked for readings.
