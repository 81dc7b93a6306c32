//! How a path is walked, as path_resolution(7) tells it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{bytes, path};

/// Where a path leads.
#[derive(Debug, Default)]
pub struct Way {
    pub end: PathBuf,
    /// Where the links lay that were followed.
    pub links: Vec<PathBuf>,
    /// Where it stood after each component.
    pub passed: Vec<PathBuf>,
}

/// From a folder without links on the way to it; none where it leads nowhere.
pub fn walk(from: &Path, typed: &Path) -> Option<Way> {
    if bytes(typed).is_empty() || bytes(typed).contains(&0) {
        return None;
    }
    let mut way = Way {
        end: from.to_owned(),
        ..Way::default()
    };
    let mut left = vec![];
    turn(&mut way, &mut left, bytes(typed));
    while let Some(name) = left.pop() {
        match &name[..] {
            b"" | b"." => continue,
            b".." => drop(way.end.pop()),
            name => {
                let next = way.end.join(path(name));
                if fs::symlink_metadata(&next).ok()?.is_symlink() {
                    let text = fs::read_link(&next).ok()?;
                    way.links.push(next);
                    if way.links.len() > 40 {
                        return None;
                    }
                    turn(&mut way, &mut left, bytes(&text));
                    continue;
                }
                way.end = next;
            }
        }
        way.passed.push(way.end.clone());
    }
    Some(way)
}

/// The text comes before what was left; an absolute one begins anew.
fn turn(way: &mut Way, left: &mut Vec<Vec<u8>>, text: &[u8]) {
    if text.starts_with(b"/") {
        way.end = PathBuf::from("/");
    }
    left.extend(text.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
}
