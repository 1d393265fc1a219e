import type { AgentInput } from '../schemas/agent.ts';
import type { BlockInput } from '../schemas/block.ts';
import type { LeftOut } from './left-out.ts';
import type { KeptMessage } from './read-messages.ts';

/** A block to make. */
export interface BlockPlan {
  readonly path: string;
  /** Its id in the file; agents that name it share the block. */
  readonly key: string;
  readonly input: BlockInput;
}

/** A tool that a file names. */
export interface ToolPlan {
  readonly path: string;
  readonly name: string;
  /** Why it does not come over, if no tool has its name. */
  readonly reason: string;
}

/** An agent to make. */
export interface AgentPlan {
  /** Its place: a JSON Pointer, empty for a file that is the agent. */
  readonly path: string;
  /** Without the blocks and tools of a file. */
  readonly input: AgentInput;
  /** Keys of blocks in order, and their places. */
  readonly blocks: readonly { readonly key: string; readonly path: string }[];
  /** Names of tools of the file, in order. Tools that do not exist are left out. */
  readonly file_tools: readonly string[];
  readonly messages: readonly KeptMessage[];
}

/** All that an import makes and leaves out. */
export interface ImportPlan {
  readonly agents: readonly AgentPlan[];
  readonly blocks: readonly BlockPlan[];
  readonly tools: readonly ToolPlan[];
  readonly left_out: readonly LeftOut[];
}

/** Changes that the caller wants. */
export interface ImportOptions {
  readonly name: string | null;
  readonly append_copy_suffix: boolean;
  readonly strip_messages: boolean;
  /** Model handle for all agents. */
  readonly model: string | null;
  /** Secrets of all agents, beside those of the file. */
  readonly secrets: Readonly<Record<string, string>> | null;
  /** Embedding handle, which is stored and has no effect. */
  readonly embedding: string | null;
}
