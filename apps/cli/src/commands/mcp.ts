import type { Define } from '../session.ts';

interface Flags {
  readonly write?: boolean;
}

/** Serves the operations as tools of the Model Context Protocol, on stdin and stdout. */
export const define: Define = (command, run) => {
  command
    .option('--write', 'also list the tools that submit, retry, cancel and review; each with a dry run first')
    .addHelpText('after', '\nA client starts this command itself: docs/mcp.md shows its configuration.')
    .action(
      run<Flags>(async ({ client, out, signal }, { write = false }) => {
        // No other command pays for loading the protocol.
        const { serveTools } = await import('../mcp/server.ts');
        const version = command.parent?.version() ?? '';
        await serveTools({ client, version, canWrite: write, warn: (line) => out.warn(line), signal });
        return undefined;
      }),
    );
};
