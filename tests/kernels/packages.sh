# Sourced by `run`: Debian's kernels, from packages to what qemu boots. Nothing of
# them is installed. `$cache` is where they are kept.
# shellcheck shell=bash disable=SC2154

# Where a series is found: the suites that hold it, and the packages with its image
# and its modules. The newest of what the suites have is taken.
suites_of() {
  case $1 in
    5.10) echo bullseye bullseye-security ;;
    6.1) echo bookworm bookworm-security ;;
    6.12) echo trixie trixie-security ;;
    7) echo sid experimental ;;
  esac
}

# By series, what guests are known by: the modules that init needs, in an order in
# which each finds what it depends on. Absent ones are built in, or not of this series.
readonly modules='virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci
  netfs fscache 9pnet 9pnet_virtio 9p overlay virtio_blk crc32c_generic libcrc32c crc16 mbcache jbd2 ext4
  vsock af_alg'

# ---- A private view of the archive

# apt with state, cache and sources of its own.
apt_private() {
  local tool=$1
  shift
  "$tool" -qq -o Dir::State="$cache/apt/state" -o Dir::State::status="$cache/apt/status" \
    -o Dir::Cache="$cache/apt/cache" -o Dir::Etc::SourceList="$cache/apt/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
    -o Dir::Etc::PreferencesParts=/dev/null -o APT::Architecture=amd64 -o APT::Architectures::=amd64 \
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3 \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# The mirror that this host uses for Debian ($1: Debian or Debian-Security), or the
# one that GROOM_NS_DEBIAN_MIRROR and GROOM_NS_DEBIAN_SECURITY_MIRROR name.
mirror() {
  local named=${GROOM_NS_DEBIAN_MIRROR:-}
  [[ $1 == Debian ]] || named=${GROOM_NS_DEBIAN_SECURITY_MIRROR:-}
  if [[ -n $named ]]; then
    echo "$named"
    return
  fi
  # shellcheck disable=SC2016 # apt's own words
  apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Identifier: Packages' |
    awk -v label="$1" '$2 == label { print $1; exit }'
}

open_archive() {
  local series suite main security keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  main=$(mirror Debian)
  security=$(mirror Debian-Security)
  [[ -n $main ]] || die "no source of this host is Debian's: name one with GROOM_NS_DEBIAN_MIRROR"
  [[ -e $keyring ]] || die "no $keyring: install debian-archive-keyring"
  mkdir -p "$cache"/apt/{state/lists,cache/archives}/partial
  : >"$cache/apt/status"
  for series in "$@"; do
    for suite in $(suites_of "$series"); do
      case $suite in
        *-security) [[ -z $security ]] || echo "deb [signed-by=$keyring] $security $suite main" ;;
        *) echo "deb [signed-by=$keyring] $main $suite main" ;;
      esac
    done
  done >"$cache/apt/sources.list"
  apt_private apt-get update
}

# Prints the release of the newest kernel of a series that there are packages for.
newest() {
  # A release has a number after the series (7.2, 7.3.1, 6.1.0-57), so that the package
  # that only depends on it (linux-image-6.1-amd64) isn't one.
  local series=${1//./\\.}
  apt_private apt-cache pkgnames |
    sed -nE "s/^linux-(image|binary)-($series\.[0-9][0-9a-z.+~-]*-amd64)$/\2/p" |
    grep -vE -- '-(cloud|rt)-amd64$|\.deb[0-9]+\.|\+bpo' | sort -uV | tail -n1
}

# ---- From packages to a kernel

# Makes `$cache/SERIES/` with vmlinux, initrd and release.
unpack_kernel() {
  local series=$1 to=$2 release package module path
  release=$(newest "$series")
  [[ -n $release ]] || die "no package of a kernel $series"
  echo "kernel $series: $release"
  mkdir -p "$to/deb" "$to/tree"
  local packages=("linux-image-$release")
  if apt_private apt-cache show "linux-binary-$release" >/dev/null 2>&1; then
    packages=("linux-binary-$release" "linux-modules-$release")
  fi
  (cd "$to/deb" && apt_private apt-get download "${packages[@]}")
  for package in "$to"/deb/*.deb; do
    dpkg -x "$package" "$to/tree"
  done
  path=$(find "$to/tree" -name 'vmlinuz*' -type f)
  "$here/vmlinux" "$path" >"$to/vmlinux"
  mkdir -p "$to/initramfs/"{bin,modules}
  for module in $modules; do
    path=$(find "$to/tree" -name "$module.ko" -o -name "$module.ko.xz")
    case $path in
      '') continue ;;
      *.xz) xz -dc "$path" >"$to/initramfs/modules/$module.ko" ;;
      *) cp "$path" "$to/initramfs/modules/" ;;
    esac
    echo "$module.ko"
  done >"$to/initramfs/modules/order"
  echo "$release" >"$to/release"
  rm -r "$to/deb" "$to/tree"
}

# What isn't in the cache is fetched; half of a kernel never is in it.
get_kernels() {
  local series missing=()
  for series in "$@"; do
    [[ -e $cache/$series/release ]] || missing+=("$series")
  done
  if ((${#missing[@]} > 0)); then
    open_archive "${missing[@]}"
    for series in "${missing[@]}"; do
      rm -rf "${cache:?}/$series" "$cache/new"
      unpack_kernel "$series" "$cache/new"
      mv "$cache/new" "$cache/$series"
    done
  fi
  for series in "$@"; do
    local from=$cache/$series/initramfs
    install -m 755 "$here/init" "$from/init"
    install -m 755 /bin/busybox "$from/bin/busybox"
    (cd "$from" && find . | busybox cpio -o -H newc) >"$cache/$series/initrd"
  done
}
