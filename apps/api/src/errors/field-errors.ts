import { inPlainWords, ISSUES_MAX, NO_NUMBER, type FieldError } from '@nightshift/agent-core';

/** A Zod issue from the validator: a joined path, the rest in `params`. */
export interface ValidationIssue {
  readonly instancePath: string;
  readonly message?: string;
  readonly params: Readonly<Record<string, unknown>>;
}

interface NestedIssue {
  readonly code?: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly errors?: readonly (readonly NestedIssue[])[];
  readonly keys?: readonly string[];
}

/** Field errors, and their number; null if there may be more than were counted. */
export interface FieldErrors {
  readonly fields: readonly FieldError[];
  readonly fields_total: number | null;
}

/**
 * Converts issues to at most a hundred field errors. Paths: JSON Pointers into a body, `?name` for the query, names for
 * path parameters.
 */
export function toFieldErrors(issues: readonly ValidationIssue[], context: string | undefined): FieldErrors {
  const explained = issues.slice(0, ISSUES_MAX).flatMap((issue) => {
    const path = issue.instancePath === '/' ? [] : issue.instancePath.slice(1).split('/');
    return explain({ ...issue.params, path, message: issue.message ?? 'is not valid' });
  });
  return {
    fields: explained.slice(0, ISSUES_MAX).map(({ path, message }) => ({
      path: toPath(path, context),
      // A query and a path have no quotes.
      message:
        context === 'querystring' || context === 'params'
          ? message.replace(NO_NUMBER, 'must be a number')
          : message,
    })),
    // Lists are read until they have this many issues; see `listOf`.
    fields_total: issues.length >= ISSUES_MAX ? null : explained.length,
  };
}

/** Explains an issue: a union by its best matching branch, unknown keys one after the other. */
function explain(
  issue: NestedIssue,
): readonly { readonly path: readonly PropertyKey[]; readonly message: string }[] {
  if (issue.keys !== undefined) {
    return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'is not known here' }));
  }
  const branches = (issue.errors ?? []).filter((branch) => branch.length > 0);
  if (branches.length === 0) return [{ path: issue.path, message: inPlainWords(issue.message) }];
  const [best = []] = branches.toSorted((a, b) => depthOf(b) - depthOf(a));
  if (depthOf(best) === 0 && branches.length > 1) {
    const messages = new Set(
      branches.flatMap((branch) => branch.map(({ message }) => inPlainWords(message))),
    );
    return [{ path: issue.path, message: [...messages].join(', or ') }];
  }
  return best.flatMap((inner) => explain({ ...inner, path: [...issue.path, ...inner.path] }));
}

function depthOf(branch: readonly NestedIssue[]): number {
  return branch.reduce((depth, issue) => Math.max(depth, issue.path.length), 0);
}

function toPath(path: readonly PropertyKey[], context: string | undefined): string {
  const parts = path.map(String);
  if (context === 'querystring') return `?${parts.join('.')}`;
  if (context === 'params' || context === 'headers') return parts.join('.');
  return parts.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
