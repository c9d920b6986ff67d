# tern-client, from the tree that this file stands in (docs/PORTING.md).

TERN_CLIENT_SITE = $(BR2_EXTERNAL_TERN_PATH)/../..
TERN_CLIENT_SITE_METHOD = local
TERN_CLIENT_LICENSE = Apache-2.0
TERN_CLIENT_LICENSE_FILES = LICENSE
TERN_CLIENT_INSTALL_STAGING = YES
TERN_CLIENT_DEPENDENCIES = cjson inih libcurl nanopb openssl zlib host-nanopb host-protobuf
TERN_CLIENT_CONF_OPTS = \
	-DTERN_AGGREGATOR=OFF \
	-DTERN_TESTS=OFF \
	-DTERN_DBUS=OFF \
	-DTERN_CURL_TLS=openssl

# Kconfig cannot select a member of a choice.
ifeq ($(BR_BUILDING),y)
ifeq ($(BR2_PACKAGE_TERN_CLIENT)$(BR2_PACKAGE_LIBCURL_OPENSSL),y)
$(error tern-client needs libcurl with OpenSSL: set BR2_PACKAGE_LIBCURL_OPENSSL=y)
endif
endif

$(eval $(cmake-package))
