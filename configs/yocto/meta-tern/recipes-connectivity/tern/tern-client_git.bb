SUMMARY = "Client of a federation, for links paid by the byte"
DESCRIPTION = "Trains a model on data that never leaves the device, compresses the change and sends it over \
metered HTTPS, within byte budgets. With it comes the shared library for programs that embed the client."
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

# nanopb is one recipe in kirkstone; from scarthgap on its run-time library and its generator are two. Both stand in the layer
# for meta-python of meta-oe (conf/layer.conf).
TERN_NANOPB = "${@'nanopb nanopb-native' if 'kirkstone' in (d.getVar('LAYERSERIES_CORENAMES') or '').split() \
    else 'nanopb-runtime nanopb-generator-native'}"
DEPENDS = "cjson curl libinih openssl zlib ${TERN_NANOPB} protobuf-native python3-protobuf-native"

inherit cmake pkgconfig python3native externalsrc
EXTERNALSRC = "${TERN_TREE}"

EXTRA_OECMAKE = " \
    -DTERN_AGGREGATOR=OFF \
    -DTERN_TESTS=OFF \
    -DTERN_DBUS=OFF \
    -DTERN_CURL_TLS=openssl \
"
