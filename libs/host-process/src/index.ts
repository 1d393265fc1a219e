/**
 * The worker's side of a host: a child process that carries out calls. The process imports `worker-link` alone.
 *
 * worker ── call host ── processes ══ frames over pipes ══ worker link ── host process
 */
export { startCallHost, type CallEnd, type CallHost, type CallHostOptions } from './call-host.ts';
export type { HostCommand, LogSource } from './child.ts';
export type { FromHost, ToHost } from './messages.ts';
