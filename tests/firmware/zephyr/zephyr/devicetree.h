// Stands in for Zephyr's: the nodes of samples/tern/boards/mps2_an385.overlay, of which test_components.py defines the parents
// and properties. A property that a node lacks does not compile.
#ifndef TERN_TEST_ZEPHYR_DEVICETREE_H
#define TERN_TEST_ZEPHYR_DEVICETREE_H

#define TERN_TEST_JOINED(a, b) TERN_TEST_JOIN(a, b)
#define TERN_TEST_JOIN(a, b) a##b

#define DT_NODELABEL(label) TERN_TEST_DT_##label
#define DT_PARENT(node) TERN_TEST_JOINED(node, _PARENT)
#define DT_GPARENT(node) DT_PARENT(DT_PARENT(node))
#define DT_PROP(node, property) TERN_TEST_JOINED(node, _P_##property)

#endif
