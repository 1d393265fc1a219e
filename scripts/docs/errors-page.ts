import { ERROR_CATALOGUE } from '../../libs/agent-core/src/index.ts';
import { code, generatedFrom, page, table } from './markdown.ts';

/** Builds the page of errors: answers of the API, and errors in logs and exits. */
export function errorsPage(): string {
  const entries = Object.entries(ERROR_CATALOGUE);
  const answered = entries.flatMap(([name, { status, title, next }]) =>
    status === null ? [] : [[code(name), String(status), title, next]],
  );
  const internal = entries.flatMap(([name, { status, title, next }]) =>
    status === null ? [[code(name), title, next]] : [],
  );
  return page([
    '# Errors',
    generatedFrom(['`libs/agent-core/src/base/errors.ts`']),
    'The `code` of an error is stable. Its text is for people and may change: it names the field or the row, and ends with ' +
      'the next action.',
    '## Answered by the API',
    'An error is `application/problem+json`. Its body has the members of RFC 9457: `type` (`urn:nightshift:error:<code>`), `title`, `status`, `detail`. It also has ' +
      '`code`, `message` (the same as `detail`), `errors` (the wrong fields, each with `path` and `message`), ' +
      '`errors_total` and `request_id`. `errors` names at most 100 fields; `errors_total` is their number, or null if ' +
      'checking stopped at the limit. ' +
      'A `path` is a JSON Pointer into the body, `?name` for a query parameter (`?name.0` in a list), or the name of a part ' +
      'of the URL.',
    table(['Code', 'Status', 'Title', 'What to do next'], answered),
    '## Seen in logs and at start',
    'These never reach a client. If such an error ends a request, the answer is `internal`.',
    table(['Code', 'Title', 'What to do next'], internal),
  ]);
}
