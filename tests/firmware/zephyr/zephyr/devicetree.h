// Stands in for Zephyr's: the flash of samples/tern/boards/mps2_an385.overlay, of which test_components.py takes the numbers.
#ifndef TERN_TEST_ZEPHYR_DEVICETREE_H
#define TERN_TEST_ZEPHYR_DEVICETREE_H

#define DT_NODELABEL(label) label
#define DT_MTD_FROM_FIXED_PARTITION(node) node
#define DT_PROP(node, property) TERN_TEST_DT_##property

#endif
