//! The jail's file system as build steps: what lies where, and in which order
//! it must be mounted.

use std::path::{Path, PathBuf};

use crate::host::{Host, SystemShape};
use crate::policy::{CloneMode, Granted, GrantedKind, Policy};
use crate::within::is_within;

use super::step::{Access, Bind, Build, IdMap, Identity, Ids, Kind, Route, Standing, Tmpfs};
use super::{BROKER_SOCKET, CANARY, DEVPTS, HOME};

/// The device nodes of `/dev`, with their major and minor numbers
/// (Documentation/admin-guide/devices.txt).
pub(super) const DEVICES: [(&str, (u32, u32)); 6] = [
    ("null", (1, 3)),
    ("zero", (1, 5)),
    ("full", (1, 7)),
    ("random", (1, 8)),
    ("urandom", (1, 9)),
    ("tty", (5, 0)),
];

/// Links of `/dev` that programs expect.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Something of the host that the caller named.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) bind: Bind,
    /// Another path that leads there, as typed.
    pub(super) alias: Option<PathBuf>,
}

impl Place {
    /// A granted file or folder at its own path.
    pub(super) fn of(granted: &Granted, access: Access, identity: &Identity) -> Place {
        let kind = match granted.kind {
            GrantedKind::Dir => Kind::Dir,
            GrantedKind::File => Kind::File,
            GrantedKind::Socket => Kind::Socket,
        };
        let bind = Bind {
            source: granted.path.clone(),
            target: granted.path.clone(),
            kind,
            access,
            identity: Some(granted.identity),
            idmap: idmap(granted.owner, identity),
        };
        Place {
            bind,
            alias: granted.alias.clone(),
        }
    }

    /// An out-dir that will be made with this owner.
    pub(super) fn to_be_made(
        path: &Path,
        alias: Option<&Path>,
        owner: Ids,
        identity: &Identity,
    ) -> Place {
        let bind = Bind {
            source: path.to_owned(),
            target: path.to_owned(),
            kind: Kind::Dir,
            access: Access::Rw,
            identity: None,
            idmap: idmap(owner, identity),
        };
        Place {
            bind,
            alias: alias.map(Path::to_owned),
        }
    }
}

/// Root's trees show their owner as the command; a user's are the user's.
fn idmap(disk: Ids, identity: &Identity) -> Option<IdMap> {
    (identity.route == Route::Root).then_some(IdMap {
        disk,
        host: identity.host,
    })
}

/// The read-only system trees: folders; links are made as links.
pub(super) fn system_binds(host: &Host) -> impl Iterator<Item = Bind> {
    host.system.iter().filter_map(|dir| match &dir.shape {
        SystemShape::Symlink(_) => None,
        SystemShape::Dir { identity, .. } => Some(Bind {
            source: dir.path.clone(),
            target: dir.path.clone(),
            kind: Kind::Dir,
            access: Access::Ro,
            identity: Some(*identity),
            idmap: None,
        }),
    })
}

/// Every step that pid 1 builds with, in order, and the mounts that stand then.
pub(super) fn build(
    policy: &Policy,
    host: &Host,
    identity: &Identity,
    granted: &[Place],
) -> (Vec<Build>, Vec<Standing>) {
    let mut layout = Layout::new(policy.broker.as_ref().map(|broker| broker.shim_port));
    if let Some(size) = policy.limits.tmp_size {
        layout.tmp_size = size.option();
    }
    layout.system(host);
    layout.devices();
    layout.proc(host);
    layout.private();
    for place in granted {
        layout.bind(place.bind.clone());
    }
    if let Some(uds) = &policy.uds {
        let mut place = Place::of(uds, Access::Ro, identity);
        place.bind.target = BROKER_SOCKET.into();
        layout.bind(place.bind);
    }
    layout.covers(policy);
    for place in granted {
        if let Some(alias) = &place.alias {
            layout.alias(alias, &place.bind.target);
        }
    }
    layout.finish(policy)
}

/// Steps under way, and what stands so far.
struct Layout {
    steps: Vec<Build>,
    standing: Vec<Standing>,
    /// Folders, files and links made on our own tmpfs.
    made: Vec<PathBuf>,
    /// Of each private folder.
    tmp_size: String,
}

impl Layout {
    /// Up to an empty root. With a broker, its shim listens on `shim_port`.
    fn new(shim_port: Option<u16>) -> Layout {
        let mut layout = Layout {
            steps: Vec::new(),
            standing: Vec::new(),
            made: Vec::new(),
            tmp_size: "25%".to_owned(),
        };
        layout.steps.extend([
            Build::Hostname {
                name: "groom-ns".to_owned(),
            },
            Build::SessionKeyring,
            Build::LoopbackUp,
        ]);
        let listener = shim_port.map(|port| Build::ShimListener { port });
        layout.steps.extend(listener);
        layout.steps.push(Build::Root(Tmpfs {
            size: "1m".to_owned(),
            inodes: 8192,
            mode: 0o755,
        }));
        layout.made.push("/".into());
        layout.stand(Path::new("/"), Access::Ro, false);
        layout.file(Path::new(CANARY));
        layout
    }

    fn system(&mut self, host: &Host) {
        for dir in &host.system {
            if let SystemShape::Symlink(target) = &dir.shape {
                self.link(&dir.path, target);
            }
        }
        for bind in system_binds(host) {
            self.bind(bind);
        }
    }

    /// `/dev`: six nodes, a pty instance, shared memory, links, and no more.
    fn devices(&mut self) {
        let dev = Path::new("/dev");
        self.dir(dev);
        for (name, (major, minor)) in DEVICES {
            let path = dev.join(name);
            self.bind(Bind {
                source: path.clone(),
                target: path,
                kind: Kind::Device { major, minor },
                access: Access::Ro,
                identity: None,
                idmap: None,
            });
        }
        for (name, target) in DEVICE_LINKS {
            self.link(&dev.join(name), Path::new(target));
        }
        let pts = Path::new(DEVPTS);
        self.dir(pts);
        self.steps.push(Build::Devpts {
            path: pts.to_owned(),
        });
        self.stand(pts, Access::Rw, false);
        let shm = Tmpfs {
            size: self.tmp_size.clone(),
            inodes: 65536,
            mode: 0o1777,
        };
        self.tmpfs(&dev.join("shm"), shm);
    }

    /// A fresh `/proc`, before the host's is out of sight: the kernel wants to
    /// see one that shows as much.
    fn proc(&mut self, host: &Host) {
        let proc = Path::new("/proc");
        self.dir(proc);
        self.steps.push(Build::Proc {
            path: proc.to_owned(),
        });
        self.stand(proc, Access::Rw, false);
        self.steps.push(Build::NoUserNamespaces);
        let sys = proc.join("sys");
        self.steps.push(Build::ReadOnly { path: sys.clone() });
        self.stand(&sys, Access::Ro, false);
        for name in &host.masks.files {
            self.mask_file(proc.join(name));
        }
        for name in &host.masks.dirs {
            let path = proc.join(name);
            self.steps.push(Build::MaskDir { path: path.clone() });
            self.stand(&path, Access::Ro, false);
        }
    }

    /// The command's own room, and `/run`, which like all of the root is sealed.
    fn private(&mut self) {
        let size = self.tmp_size.clone();
        let large = |mode| Tmpfs {
            size: size.clone(),
            inodes: 262_144,
            mode,
        };
        self.tmpfs(Path::new("/tmp"), large(0o1777));
        self.tmpfs(Path::new(HOME), large(0o700));
        self.dir(Path::new("/run"));
    }

    /// What lies over a granted tree: folders on the way to a nested repository
    /// first, outermost first, since each holds what comes after it.
    fn covers(&mut self, policy: &Policy) {
        if let CloneMode::RwGitRo(covers) = &policy.clone_mode {
            for (list, access) in [(&covers.parents, Access::Rw), (&covers.gits, Access::Ro)] {
                for (path, identity) in list {
                    self.steps.push(Build::Pin {
                        path: path.clone(),
                        access,
                        identity: *identity,
                    });
                    self.stand(path, access, true);
                }
            }
        }
        for socket in &policy.sockets {
            self.mask_file(socket.clone());
        }
    }

    /// The broker's socket comes after the pivot, where its path is its path, and
    /// before the seal, after which nothing can be made beside it.
    /// The terminal comes last, and takes no privilege.
    fn finish(mut self, policy: &Policy) -> (Vec<Build>, Vec<Standing>) {
        self.steps.push(Build::Pivot);
        if policy.broker.is_some() {
            let path = BROKER_SOCKET.into();
            self.steps.push(Build::BrokerSocket { path });
            self.steps.push(Build::HandOut);
        }
        self.steps.push(Build::Seal { path: "/".into() });
        self.steps.push(Build::DropCapabilities);
        if !policy.terminal.is_empty() {
            self.steps.push(Build::Terminal {
                devpts: DEVPTS.into(),
                descriptors: policy.terminal.clone(),
            });
        }
        (self.steps, self.standing)
    }

    fn bind(&mut self, bind: Bind) {
        match bind.kind {
            Kind::Dir => self.dir(&bind.target),
            Kind::File | Kind::Socket | Kind::Device { .. } => self.file(&bind.target),
        }
        self.stand(&bind.target, bind.access, bind.kind == Kind::Dir);
        self.steps.push(Build::Bind(bind));
    }

    /// A private tmpfs.
    fn tmpfs(&mut self, path: &Path, tmpfs: Tmpfs) {
        self.dir(path);
        self.steps.push(Build::Tmpfs {
            path: path.to_owned(),
            tmpfs,
        });
        self.stand(path, Access::Rw, false);
    }

    fn mask_file(&mut self, path: PathBuf) {
        self.stand(&path, Access::Ro, false);
        self.steps.push(Build::MaskFile { path });
    }

    /// The path as typed, where it isn't in a bound tree (which has the host's
    /// own link).
    fn alias(&mut self, alias: &Path, target: &Path) {
        if !self.is_taken(alias) {
            self.link(alias, target);
        }
    }

    /// A folder and its parents.
    fn dir(&mut self, path: &Path) {
        if let Some(parent) = path.parent() {
            if self.is_taken(path) {
                return;
            }
            self.dir(parent);
            self.made.push(path.to_owned());
            self.steps.push(Build::Dir {
                path: path.to_owned(),
            });
        }
    }

    fn file(&mut self, path: &Path) {
        if !self.is_taken(path) {
            self.parents(path);
            self.made.push(path.to_owned());
            self.steps.push(Build::File {
                path: path.to_owned(),
            });
        }
    }

    fn link(&mut self, path: &Path, target: &Path) {
        self.parents(path);
        self.made.push(path.to_owned());
        self.steps.push(Build::Symlink {
            path: path.to_owned(),
            target: target.to_owned(),
        });
    }

    fn parents(&mut self, path: &Path) {
        if let Some(parent) = path.parent() {
            self.dir(parent);
        }
    }

    /// Made already, or there because the tree that is bound around it has it.
    fn is_taken(&self, path: &Path) -> bool {
        let is_it = |made: &PathBuf| made.as_os_str() == path.as_os_str();
        self.made.iter().any(is_it)
            || self
                .standing
                .iter()
                .filter(|standing| is_within(path, &standing.path))
                .max_by_key(|standing| standing.path.as_os_str().len())
                .is_some_and(|innermost| innermost.tree)
    }

    fn stand(&mut self, path: &Path, access: Access, tree: bool) {
        self.standing.push(Standing {
            path: path.to_owned(),
            access,
            tree,
        });
    }
}
