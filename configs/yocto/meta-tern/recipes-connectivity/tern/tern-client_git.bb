SUMMARY = "Client of a federation, for links paid by the byte"
DESCRIPTION = "Trains a model on data that never leaves the device, compresses the change and sends it over \
metered HTTPS, within byte budgets. With it comes the shared library for programs that embed the client."
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

DEPENDS = "cjson curl inih openssl zlib nanopb-runtime nanopb-generator-native protobuf-native"

inherit cmake pkgconfig externalsrc
EXTERNALSRC = "${TERN_TREE}"

EXTRA_OECMAKE = " \
    -DTERN_AGGREGATOR=OFF \
    -DTERN_TESTS=OFF \
    -DTERN_DBUS=OFF \
    -DTERN_CURL_TLS=openssl \
"
