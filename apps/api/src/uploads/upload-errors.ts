import { ISSUES_MAX, NightshiftError, type ErrorCode, type FieldError } from '@nightshift/agent-core';
import { sentence, type LineErrors } from '@nightshift/intake';

/** The errors of the lines of an upload. */
export interface UploadErrors {
  add(errors: LineErrors): void;
  isEmpty(): boolean;
  /** Throws: the errors, by the code of the first, up to a hundred with their number; nothing without any. */
  throwIfAny(): void;
}

/** Creates a collection of errors; it keeps a hundred and counts all. */
export function createUploadErrors(): UploadErrors {
  const fields: FieldError[] = [];
  let total: number | null = 0;
  let code: ErrorCode = 'validation_failed';
  return {
    add: (errors) => {
      if (fields.length === 0) ({ code } = errors);
      fields.push(...errors.fields.slice(0, ISSUES_MAX - fields.length));
      total = total === null || errors.total === null ? null : total + errors.total;
    },
    isEmpty: () => fields.length === 0,
    throwIfAny: () => {
      if (fields.length === 0) return;
      throw refusalOf({ code, fields: fields.toSorted((one, other) => lineOf(one) - lineOf(other)), total });
    },
  };
}

/** Returns the number of the line that an error names. */
function lineOf({ path }: FieldError): number {
  return Number(path.split('/')[2] ?? 0);
}

/** Creates the refusal of an upload; its message is the first error. */
export function refusalOf({ code, fields, total }: LineErrors): NightshiftError {
  const [first = { path: '', message: '' }] = fields;
  const message = `${sentence(`${first.path}: ${first.message}`)} Nothing was stored.`;
  return new NightshiftError(code, message, { fields, fields_total: total });
}
