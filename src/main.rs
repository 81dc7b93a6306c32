//! parse → policy → plan → print | run

fn main() {}
