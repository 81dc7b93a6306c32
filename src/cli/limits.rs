//! What a run may use up.

use clap::Args;

/// The flags of the limits. `policy::limits` reads the sizes.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most memory that the jail may take, swap included: 512M, 2G. Needs a
    /// cgroup (v2), or the run is refused
    #[arg(long, value_name = "SIZE", help_heading = HEADING)]
    pub memory: Option<String>,

    /// The most processes and threads that the command may have at once, itself
    /// included
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub pids: Option<String>,

    /// How many processors' time the jail may take: 2, 0.5. Needs a cgroup (v2), or
    /// the run is refused
    #[arg(long, value_name = "N[.N]", help_heading = HEADING)]
    pub cpus: Option<String>,

    /// The size of each private folder (/tmp, /home/agent, /dev/shm), in bytes or as
    /// a share of the host's memory: 512M, 10% [default: 25%]
    #[arg(long, value_name = "SIZE|N%", help_heading = HEADING)]
    pub tmp_size: Option<String>,

    /// The largest file that the command may write
    #[arg(long, value_name = "SIZE", help_heading = HEADING)]
    pub file_size: Option<String>,

    /// How much the command may say on standard output and error together; with
    /// more, the run is ended
    #[arg(long, value_name = "SIZE", help_heading = HEADING)]
    pub max_output: Option<String>,
}

const HEADING: &str = "Limits";
