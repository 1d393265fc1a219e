import type { Command } from 'commander';

/** Shells that completions can be made for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** Words that may follow a command. */
interface Place {
  /** Command with its parents, such as `agents ls`; empty for the program. */
  readonly path: string;
  readonly words: readonly string[];
}

/** Writes the completion of a program for a shell. */
export function completionOf(shell: Shell, program: Command): string {
  const places = placesOf(program, '', flagsOf(program));
  if (shell === 'fish') return fish(places);
  const bash = bashScript(places);
  return shell === 'bash' ? bash : `autoload -U +X bashcompinit && bashcompinit\n${bash}`;
}

function placesOf(command: Command, path: string, globals: readonly string[]): Place[] {
  const words = [
    ...command.commands.map((child) => child.name()),
    ...new Set([...flagsOf(command), ...globals]),
  ];
  return [
    { path, words },
    ...command.commands.flatMap((child) => placesOf(child, `${path} ${child.name()}`.trim(), globals)),
  ];
}

function flagsOf({ options }: Command): string[] {
  return [...options.flatMap(({ long }) => (long == null ? [] : [long])), '--help'];
}

/** Names of commands with commands of their own are followed; the words behind them are arguments. */
function bashScript(places: readonly Place[]): string {
  const cases = places.map(({ path, words }) => `    '${path}') words='${words.join(' ')}' ;;`);
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => `'${path}'`);
  return `_nightshift() {
  local word path='' words='' cur="\${COMP_WORDS[COMP_CWORD]}"
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "\${path:+$path }$word" in
      ${paths.join('|')}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _nightshift nightshift
`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words }) => {
    const parts = path.split(' ').filter(Boolean);
    const condition =
      parts.length === 0
        ? '__fish_use_subcommand'
        : parts.map((part) => `__fish_seen_subcommand_from ${part}`).join('; and ');
    return words.map((word) =>
      word.startsWith('--')
        ? `complete -c nightshift -n '${condition}' -l ${word.slice(2)}`
        : `complete -c nightshift -n '${condition}' -a ${word}`,
    );
  });
  return `${lines.join('\n')}\n`;
}
