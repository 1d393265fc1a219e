import type { FromHost, ToHost } from '@nightshift/host-process';
import type { NetCall, Reply } from './contract.ts';

/** Messages between the worker's side and the net host. */
export type ToNetHost = ToHost<{ readonly call: NetCall }>;
export type FromNetHost = FromHost<Reply>;

/** Maximum length of a message. Unit: bytes of JSON. */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024;
