import { readFileSync } from 'node:fs';

/**
 * The most memory that the process ever had resident, in megabytes of 1,000,000 bytes: VmHWM of Linux. Null where the
 * system does not tell, and once the process has ended.
 */
export function peakMemoryMb(pid: number): number | null {
  try {
    const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kibibytes === undefined ? null : (Number(kibibytes) * 1024) / 1_000_000;
  } catch {
    return null;
  }
}

/** Follows the peak of several processes, so that the last value of one that ended is not lost. */
export interface MemoryWatch {
  /** Peaks in megabytes by name, as far as known. */
  peaks(): ReadonlyMap<string, number>;
  stop(): void;
}

/** Looks at the processes every half second. */
export function watchMemory(
  processes: readonly { readonly name: string; readonly pid: number }[],
): MemoryWatch {
  const peaks = new Map<string, number>();
  const look = (): void => {
    for (const { name, pid } of processes) {
      const peak = peakMemoryMb(pid);
      if (peak !== null) peaks.set(name, peak);
    }
  };
  const timer = setInterval(look, 500);
  return {
    peaks() {
      look();
      return peaks;
    },
    stop: () => clearInterval(timer),
  };
}
