import { Argument, type Command } from 'commander';
import { completionOf, SHELLS, type Shell } from '../completion.ts';
import type { Define } from '../session.ts';

const HELP = `
  bash: eval "$(nightshift completion bash)" in ~/.bashrc
  zsh:  eval "$(nightshift completion zsh)" in ~/.zshrc, behind compinit
  fish: nightshift completion fish > ~/.config/fish/completions/nightshift.fish`;

/** Writes the completion of a shell. */
export const define: Define = (command, run) => {
  command
    .addArgument(new Argument('<shell>', 'bash, zsh or fish').choices(SHELLS))
    .addHelpText('after', HELP)
    .action(
      run(async ({ out }, _flags, shell) => {
        // With this command the program defines all others.
        await out.write(completionOf(shell as Shell, command.parent as Command));
        return undefined;
      }),
    );
};
