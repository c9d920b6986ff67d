// The name of a device without a configured one: "HOST-1f3a5c". The digits tell clones of one image apart, and several
// clients of one machine. Hosted: reads files of the system; reentrant.
#ifndef TERN_DEVICE_NAME_H
#define TERN_DEVICE_NAME_H

#define TERN_DEVICE_NAME_MAX 64 // bytes, with the NUL

// Writes the host's name, cut where it is long, and six digits of a hash of the machine's ID, the addresses of its
// network devices and the whole path of its state folder. The same at each call, as long as these stay.
// root: where /etc and /sys are looked for; "" or "/": the machine's own.
void tern_device_name(const char *root, const char *state_folder, char name[TERN_DEVICE_NAME_MAX]);

#endif
