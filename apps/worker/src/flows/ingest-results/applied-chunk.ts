import { joinFailedLines, type FailedLines } from './failed-lines.ts';
import { joinEvidence, type ModelEvidence } from './weigh-outages.ts';

/** The result of applying the lines of a chunk. */
export interface AppliedChunk {
  readonly applied: number;
  /** Lines of steps that were answered before: the stream is read again. */
  readonly refused: number;
  readonly quarantined: number;
  /** The file ends within its last line. */
  readonly cut: boolean;
  /** Alarms for the log: reasons of lines set aside or left for another pass, or of a pause of all sending. */
  readonly alarms: readonly string[];
  /** Applied lines without an answer. */
  readonly failed: readonly FailedLines[];
  /** Evidence of whole chunks for and against outages. */
  readonly evidence: ModelEvidence;
}

/** Adds up the results of several chunks. */
export function joinChunks(chunks: readonly AppliedChunk[]): AppliedChunk {
  return {
    applied: chunks.reduce((sum, chunk) => sum + chunk.applied, 0),
    refused: chunks.reduce((sum, chunk) => sum + chunk.refused, 0),
    quarantined: chunks.reduce((sum, chunk) => sum + chunk.quarantined, 0),
    cut: chunks.some((chunk) => chunk.cut),
    alarms: chunks.flatMap((chunk) => chunk.alarms),
    failed: joinFailedLines(chunks.flatMap((chunk) => chunk.failed)),
    evidence: joinEvidence(chunks.map((chunk) => chunk.evidence)),
  };
}
