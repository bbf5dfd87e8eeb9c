//! Three sets: whole jobs, single steps, and the rows in which the peer errs.

mod compatible;
mod improve;
mod jobs;
