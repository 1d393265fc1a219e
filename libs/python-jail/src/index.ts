/**
 * Uploaded Python in a jail: CPython under bubblewrap, a process for each call, without network, files, variables or other
 * processes.
 */
export type { PythonCall, PythonReply } from './call.ts';
export type { SourceInspection, SourceProblem } from './inspect.ts';
export { openPythonJail, type PythonJail } from './open-python-jail.ts';
