/**
 * The filter of system calls in the jail, as a program for the kernel's packet filter. Namespaces leave three holes: memory
 * that no limit of the process counts, sockets that know no network namespace, and the kernel's rarely used parts.
 */

/** Numbers of a system call on x86-64 and arm64; null where it does not exist. */
type Numbers = readonly [number | null, number | null];

const DENIED: Readonly<Record<string, Numbers>> = {
  // New processes and threads. `clone3` has an answer of its own below.
  ...{ clone: [56, 220], fork: [57, null], vfork: [58, null] },
  // Memory outside of the address space.
  ...{ memfd_create: [319, 279], memfd_secret: [447, 447], shmget: [29, 194], msgget: [68, 186] },
  ...{
    semget: [64, 190],
    mq_open: [240, 180],
    add_key: [248, 217],
    request_key: [249, 218],
    keyctl: [250, 219],
  },
  // Namespaces and mounts.
  ...{ unshare: [272, 97], setns: [308, 268], mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41] },
  ...{ chroot: [161, 51], open_tree: [428, 428], move_mount: [429, 429], fsopen: [430, 430] },
  ...{ fsconfig: [431, 431], fsmount: [432, 432], fspick: [433, 433], mount_setattr: [442, 442] },
  // Other processes, and the kernel's rarely used parts.
  ...{ ptrace: [101, 117], process_vm_readv: [310, 270], process_vm_writev: [311, 271], bpf: [321, 280] },
  ...{ perf_event_open: [298, 241], userfaultfd: [323, 282], io_uring_setup: [425, 425] },
  ...{ inotify_init: [253, null], inotify_init1: [294, 26] },
  ...{ name_to_handle_at: [303, 264], open_by_handle_at: [304, 265], fanotify_init: [300, 262] },
  ...{ init_module: [175, 105], finit_module: [313, 273], kexec_load: [246, 104], syslog: [103, 116] },
};
const CLONE3 = 435;
/** Calls whose first argument is an address family. */
const SOCKETS: readonly Numbers[] = [
  [41, 198],
  [53, 199],
];
const AF_UNIX = 1;
const FCNTL: Numbers = [72, 25];
/** Locks of file ranges, leases and notices: each takes memory of the kernel, and no limit counts them. */
const FCNTL_DENIED = [6, 7, 37, 38, 1024, 1026];

const ARCHITECTURES: Readonly<Partial<Record<NodeJS.Architecture, { audit: number; column: 0 | 1 }>>> = {
  x64: { audit: 0xc000003e, column: 0 },
  arm64: { audit: 0xc00000b7, column: 1 },
};

const LOAD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_AT_LEAST = 0x35;
const RETURN = 0x06;
/** Offsets in the kernel's `seccomp_data`; the arguments are little endian. */
const NUMBER = 0;
const ARCHITECTURE = 4;
const FIRST_ARGUMENT = 16;
const SECOND_ARGUMENT = 24;

const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const NOT_PERMITTED = 0x00050000 | 1;
/** The C library then falls back to `clone`. */
const NOT_IMPLEMENTED = 0x00050000 | 38;
/** Numbers from here on are those of the x32 ABI. */
const X32 = 0x40000000;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

/** Returns the filter. Throws: Error on a processor whose system calls are not known here. */
export function createSeccompFilter(architecture: NodeJS.Architecture = process.arch): Buffer {
  const known = ARCHITECTURES[architecture];
  if (known === undefined)
    throw new Error(`the filter of system calls exists for x64 and arm64, not for ${architecture}`);
  const { audit, column } = known;
  const refuse = (number: number | null, answer: number): readonly Instruction[] =>
    number === null
      ? []
      : [
          [JUMP_IF_EQUAL, 0, 1, number],
          [RETURN, 0, 0, answer],
        ];
  const program: readonly Instruction[] = [
    [LOAD, 0, 0, ARCHITECTURE],
    [JUMP_IF_EQUAL, 1, 0, audit],
    [RETURN, 0, 0, KILL],
    [LOAD, 0, 0, NUMBER],
    [JUMP_IF_AT_LEAST, 0, 1, X32],
    [RETURN, 0, 0, KILL],
    ...Object.values(DENIED).flatMap((numbers) => refuse(numbers[column], NOT_PERMITTED)),
    ...refuse(CLONE3, NOT_IMPLEMENTED),
    ...SOCKETS.flatMap((numbers): readonly Instruction[] => [
      [JUMP_IF_EQUAL, 0, 4, numbers[column] ?? 0],
      [LOAD, 0, 0, FIRST_ARGUMENT],
      [JUMP_IF_EQUAL, 0, 1, AF_UNIX],
      [RETURN, 0, 0, ALLOW],
      [RETURN, 0, 0, NOT_PERMITTED],
    ]),
    [JUMP_IF_EQUAL, 0, 1 + 2 * FCNTL_DENIED.length, FCNTL[column] ?? 0],
    [LOAD, 0, 0, SECOND_ARGUMENT],
    ...FCNTL_DENIED.flatMap((command) => refuse(command, NOT_PERMITTED)),
    [RETURN, 0, 0, ALLOW],
  ];
  return Buffer.concat(program.map(encode));
}

function encode([code, ifTrue, ifFalse, value]: Instruction): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(ifTrue, 2);
  bytes.writeUInt8(ifFalse, 3);
  bytes.writeUInt32LE(value, 4);
  return bytes;
}
