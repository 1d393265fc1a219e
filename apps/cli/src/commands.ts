import type { Define } from './session.ts';

/** A command of the first level. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<{ readonly define: Define }>;
}

/** Every command, in the order of the help. */
export const COMMANDS: readonly CommandEntry[] = [
  { name: 'submit', summary: 'send a file of work as a batch', load: () => import('./commands/submit.ts') },
  { name: 'watch', summary: 'follow a batch to its end', load: () => import('./commands/watch.ts') },
  { name: 'results', summary: 'download results', load: () => import('./commands/results.ts') },
  { name: 'errors', summary: 'show failed runs in groups', load: () => import('./commands/errors.ts') },
  {
    name: 'retry',
    summary: 'try failed runs again, as a new batch',
    load: () => import('./commands/retry.ts'),
  },
  { name: 'cancel', summary: 'cancel a batch or runs of it', load: () => import('./commands/cancel.ts') },
  { name: 'pause', summary: 'pause a batch', load: () => import('./commands/pause.ts') },
  { name: 'resume', summary: 'resume a paused batch', load: () => import('./commands/resume.ts') },
  { name: 'doctor', summary: 'find out what is wrong', load: () => import('./commands/doctor.ts') },
  { name: 'ls', summary: 'list batches', load: () => import('./commands/ls.ts') },
  { name: 'show', summary: 'show a batch, run, agent … by its id', load: () => import('./commands/show.ts') },
  { name: 'logs', summary: 'show what a run did', load: () => import('./commands/logs.ts') },
  {
    name: 'events',
    summary: 'follow the changes of all batches',
    load: () => import('./commands/events.ts'),
  },
  { name: 'agents', summary: 'list, make and change agents', load: () => import('./commands/agents.ts') },
  { name: 'memory', summary: 'show, review and revert memory', load: () => import('./commands/memory.ts') },
  { name: 'schedules', summary: 'run batches by the clock', load: () => import('./commands/schedules.ts') },
  { name: 'tools', summary: 'list, make and attach tools', load: () => import('./commands/tools.ts') },
  {
    name: 'mcp-servers',
    summary: 'add MCP servers and approve their tools',
    load: () => import('./commands/mcp-servers.ts'),
  },
  { name: 'secrets', summary: 'store values for tools', load: () => import('./commands/secrets.ts') },
  { name: 'workers', summary: 'list and drain workers', load: () => import('./commands/workers.ts') },
  { name: 'usage', summary: 'show tokens and cost', load: () => import('./commands/usage.ts') },
  { name: 'estimate', summary: 'estimate the cost of a file', load: () => import('./commands/estimate.ts') },
  {
    name: 'delete',
    summary: 'delete a batch, agent, tool … by its id',
    load: () => import('./commands/delete.ts'),
  },
  { name: 'api', summary: 'send any request to the API', load: () => import('./commands/api.ts') },
  { name: 'config', summary: 'show and change settings', load: () => import('./commands/config.ts') },
  {
    name: 'completion',
    summary: 'write the completion of a shell',
    load: () => import('./commands/completion.ts'),
  },
  {
    name: 'mcp',
    summary: 'serve the operations as tools of an AI client',
    load: () => import('./commands/mcp.ts'),
  },
];
