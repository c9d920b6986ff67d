# nanopb, which Buildroot does not have: its run-time library for the target, its generator for the host.

NANOPB_VERSION = 0.4.9.1
NANOPB_SITE = $(call github,nanopb,nanopb,$(NANOPB_VERSION))
NANOPB_LICENSE = Zlib
NANOPB_LICENSE_FILES = LICENSE.txt
NANOPB_INSTALL_STAGING = YES
NANOPB_INSTALL_TARGET = NO # a static library
NANOPB_CONF_OPTS = \
	-DBUILD_SHARED_LIBS=OFF \
	-DBUILD_STATIC_LIBS=ON \
	-Dnanopb_BUILD_RUNTIME=ON \
	-Dnanopb_BUILD_GENERATOR=OFF

HOST_NANOPB_DEPENDENCIES = host-protobuf host-python3 host-tern-python-protobuf

# The generator finds its modules beside itself.
define HOST_NANOPB_INSTALL_CMDS
	mkdir -p $(HOST_DIR)/share/nanopb
	cp -r $(@D)/generator $(HOST_DIR)/share/nanopb/
	ln -sf ../share/nanopb/generator/nanopb_generator.py $(HOST_DIR)/bin/nanopb_generator.py
endef

$(eval $(cmake-package))
$(eval $(host-generic-package))
