import type { MessagePort } from 'node:worker_threads';
import type { ToolManifest } from './contract.ts';

/** Messages between the host and a thread. All are passed by structured clone. */

/** A session: a thread runs calls of one tool until the host ends the session. */
export interface SessionTask {
  readonly tool: ToolManifest;
  /** Carries {@link ToThread} and {@link FromThread}. */
  readonly port: MessagePort;
}

export type ToThread =
  /** The calls to enter, as one JSON array: one string is far cheaper to pass than many objects. */
  | { readonly kind: 'calls'; readonly json: string }
  /** Ends a call. `name` and `reason` are the error of its signal. */
  | { readonly kind: 'stop'; readonly id: number; readonly name: string; readonly reason: string }
  /** Sent when every call has ended. */
  | { readonly kind: 'end' };

export type FromThread =
  | { readonly kind: 'began'; readonly threadId: number }
  /** Posted before each entry, so that the host knows the running call of a thread that hangs or dies. */
  | {
      readonly kind: 'step';
      /** The call that is entered next; 0: every entered call has returned or yielded. */
      readonly running: number;
      /** A call that has ended; 0: none. */
      readonly ended: number;
      /** The outcome frame as JSON, which the host forwards unread; empty if the call was stopped. */
      readonly outcome: string;
    }
  /** The call ends the thread: it exits, or threw outside its promise. 0: code left by an ended call does. */
  | { readonly kind: 'blame'; readonly call: number }
  /** The module cannot be imported in this thread, and never will: the host must end the thread. */
  | { readonly kind: 'not_imported'; readonly reason: string }
  /** Functions of stopped calls are still running: the host must end the thread. */
  | { readonly kind: 'occupied' };

/** The manifest of a module, or the reason why it cannot be used. */
export type ModuleInspection =
  | ({ readonly usable: true } & Omit<ToolManifest, 'name' | 'file'>)
  | { readonly usable: false; readonly reason: string };
