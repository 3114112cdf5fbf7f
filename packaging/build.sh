#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Inside a clean Debian 12 (scripts/release.sh), in a checkout: the wheel, and a .deb for each release
# of Debian with the Python packages that its interpreter takes. They come to dist/.
#
#   packaging/build.sh    with SOURCE_DATE_EPOCH
set -euo pipefail

cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
version=$(cat VERSION)
tools=/var/tmp/headrace-tools

python3 -m venv "$tools"
"$tools/bin/pip" install -q --require-hashes -r packaging/locked/tools.txt
PATH=$tools/bin:$PATH
rm -rf dist build/wheel
hatchling build -t wheel -d build/wheel
auditwheel repair --plat manylinux_2_36_x86_64 --only-plat -w dist build/wheel/*.whl

# deb DEBIAN PYTHON NEXT: for one release of Debian, whose Python is at least that and below the next.
deb() {
	local tree=build/deb-$1
	rm -rf "$tree"
	mkdir -p "$tree/usr/lib/headrace" "$tree/usr/bin" "$tree/usr/share/doc/headrace" "$tree/DEBIAN"
	local pip=(pip install -q --no-compile --only-binary=:all: --python-version "$2"
		--target "$tree/usr/lib/headrace" --no-deps)
	"${pip[@]}" --require-hashes -r packaging/locked/run.txt
	"${pip[@]}" dist/*.whl
	rm -rf "$tree/usr/lib/headrace/bin"
	# pip notes the folder that it took the wheel from.
	rm -f "$tree"/usr/lib/headrace/headrace-*.dist-info/{direct_url.json,RECORD}
	install -m 755 packaging/headrace.sh "$tree/usr/bin/headrace"
	install -m 644 LICENSE "$tree/usr/share/doc/headrace/copyright"
	install -m 644 CHANGELOG.md "$tree/usr/share/doc/headrace/"
	install -m 755 packaging/{postinst,prerm} "$tree/DEBIAN/"
	sed "s/@VERSION@/$version-1~deb$1/; s/@PYTHON@/$2/; s/@NEXT@/$3/" packaging/control >"$tree/DEBIAN/control"
	dpkg-deb --root-owner-group -Zzstd -z10 --build "$tree" "dist/headrace_$version-1~deb$1_amd64.deb"
}

deb 12 3.11 3.12
deb 13 3.13 3.14
