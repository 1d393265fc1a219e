export { COMMANDS, type CommandEntry } from './commands.ts';
export { runCommandLine, type Surroundings } from './program.ts';
