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
    'An error is told apart by its `code`, which is stable; its text is for people and may change. The text names the ' +
      'field or the row, and ends with what to do next.',
    '## Answered by the API',
    'The body has the members of RFC 9457 (`type`, `title`, `status`, `detail`) and besides them `code`, `message` (the ' +
      'same as `detail`), `errors` (the offending fields, each with a `path` and a `message`) and `request_id`. A `path` is a ' +
      'JSON Pointer into the body, `?name` for a query parameter (`?name.0` for one of several), or the name of a part of ' +
      'the path. Its `type` is `urn:nightshift:error:<code>`.',
    table(['Code', 'Status', 'Title', 'What to do next'], answered),
    '## Seen in logs and at start',
    'These never reach a client. Where one of them ends a request all the same, the answer is `internal`.',
    table(['Code', 'Title', 'What to do next'], internal),
  ]);
}
