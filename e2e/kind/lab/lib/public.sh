# shellcheck shell=bash
# A public node image (KINDLAB_NODE_IMAGE) in place of our own. Sourced by kindlab.sh.
# lib/image.sh knows nothing of it: the name of our own image is a digest of that file too.

cluster_image() { if [ -n "$public" ]; then echo "$public"; else node_image; fi; }

# make_image is the stage "image".
make_image() {
  if [ -n "$public" ]; then
    say "nothing to build: KINDLAB_NODE_IMAGE is $public"
    return
  fi
  mirror=${KINDLAB_MIRROR:-}
  if ! has_image; then
    mirror=${mirror:-$(mirror_of_apt)}
    [ -n "$mirror" ] || die "no Debian mirror to build the node image from: apt names none here." \
      "Set KINDLAB_MIRROR to one that has /debian and /debian-security, or KINDLAB_NODE_IMAGE to a public node image"
  fi
  image
}
# apt takes most of a second to say it.
mirror_of_apt() { (apt-get indextargets --format '$(SITE)' 2>/dev/null || true) | sed -n 's#/debian/*$##p' | sed -n 1p; }
has_image() { docker image inspect "$(node_image)" >/dev/null 2>&1 || (cached) 2>/dev/null; }

# minor_of TEXT: 35 of "kindest/node:v1.35.8", 33 of "kind v0.33.0"; nothing of a text without a version.
minor_of() { if [[ $1 =~ v[01]\.([0-9]+)\. ]]; then echo "${BASH_REMATCH[1]}"; fi; }

# kind is released with node images, and supports no others.
kind_fits() {
  local pinned
  pinned=$(awk '$1 == "sigs.k8s.io/kind" {print $2}' "$here/mods/kind/go.mod")
  [ -n "$(type -P kind)" ] && [ "$(minor_of "$(command kind version)")" = "$(minor_of "$pinned")" ]
}

# kubectl supports API servers of its own minor version and of those beside.
kubectl_fits() {
  local have want
  have=$([ -z "$(type -P kubectl)" ] || minor_of "$(command kubectl version --client)")
  want=$(minor_of "$public")
  [ -n "$have" ] && [ -n "$want" ] && ((have >= want - 1 && have <= want + 1))
}

# use_installed NAME puts this machine's program in $bin, where all look for it.
use_installed() {
  local found
  found=$(type -P "$1")
  [ "$found" -ef "$bin/$1" ] || ln -sf "$found" "$bin/$1"
}

# kwok_manifest says what runs KWOK. kindnet, the pod network of public node images, routes to every node that has an
# address and ends where it cannot; the address that KWOK gives its nodes is a pod's, to which no node has a direct way.
kwok_manifest() {
  if [ -n "$public" ]; then
    sed '/--node-ip=/d' "$here/manifests/kwok.yaml"
  else
    cat "$here/manifests/kwok.yaml"
  fi
}
