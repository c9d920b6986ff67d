# Stands in for OpenWrt's rules.mk, package.mk and cmake.mk: takes the package's definitions and
# offers targets that show and install them.
INCLUDE_DIR:=$(TOPDIR)/include
INSTALL_DIR:=install -d -m0755
INSTALL_BIN:=install -m0755
INSTALL_CONF:=install -m0600
CP:=cp -fpR

define BuildPackage
$(eval $(call Package/$(1)))
.PHONY: show prepare install
show:
	@echo 'version $(PKG_VERSION)'
	@echo 'depends $(DEPENDS)'
	@echo 'user $(USERID)'
	@echo 'options $(CMAKE_OPTIONS)'
prepare:
	$$(Build/Prepare)
install:
	$$(call Package/$(1)/install,$(DESTINATION))
endef
