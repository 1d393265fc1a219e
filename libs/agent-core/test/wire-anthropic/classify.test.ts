import { describe, expect, test } from 'vitest';
import type { RefusalCause } from '../../src/model/refusal-cause.ts';
import {
  classifyCreateFailure,
  classifyErroredLine,
  type CreateFailure,
  type ErroredLineKind,
} from '../../src/wire/anthropic/classify.ts';

function failure(given: Partial<CreateFailure>): CreateFailure {
  return {
    status: 400,
    error_type: null,
    error_code: null,
    has_provider_shape: true,
    retry_after_ms: null,
    message: 'said so',
    ...given,
  };
}

describe('a create that failed', () => {
  test.each<[number, RefusalCause]>([
    [400, 'bad_request'],
    [401, 'unauthorized'],
    [403, 'unauthorized'],
    [404, 'not_found'],
    [413, 'too_large'],
    [422, 'bad_request'],
    [429, 'rate_limited'],
    [529, 'overloaded'],
  ])('with %i in the provider’s words is refused: %s', (status, what) => {
    expect(classifyCreateFailure(failure({ status, retry_after_ms: 5 }))).toEqual({
      verdict: 'refused',
      what,
      retry_after_ms: 5,
    });
  });

  test.each([400, 401, 403, 404, 413, 422, 429, 529])('with %i from another server is unknown', (status) => {
    expect(classifyCreateFailure(failure({ status, has_provider_shape: false }))).toEqual({
      verdict: 'unknown',
      reason: `HTTP ${status}: said so`,
    });
  });

  test('with any other status is unknown, whatever its body', () => {
    const refusals = new Set([400, 401, 402, 403, 404, 413, 422, 429, 529]);
    for (let status = 100; status < 600; status++) {
      if (refusals.has(status)) continue;
      expect(classifyCreateFailure(failure({ status })).verdict).toBe('unknown');
    }
  });

  test('without a response is unknown', () => {
    const verdict = classifyCreateFailure(failure({ status: null, message: 'ECONNRESET' }));
    expect(verdict).toEqual({ verdict: 'unknown', reason: 'ECONNRESET' });
  });

  test.each<[number, string | null, string, RefusalCause]>([
    [429, 'enforced_spend_limit_reached', '', 'spend_limit'],
    [402, null, 'payment required', 'spend_limit'],
    [400, null, 'Your credit balance is too low to access the Anthropic API.', 'spend_limit'],
    [429, 'contract_spend_limit_reached', '', 'spend_limit'],
    [429, 'ramp_limit_exceeded', '', 'rate_limited'],
    [400, 'enforced_spend_limit_reached', '', 'spend_limit'],
    [400, 'organization_on_hold', '', 'unauthorized'],
    [400, 'cmek_key_disabled', '', 'unauthorized'],
    [400, 'something_new', '', 'bad_request'],
    [
      400,
      null,
      'You have reached your specified API usage limits. You will regain access on …',
      'spend_limit',
    ],
    [400, null, 'requests.0.custom_id: String should have at most 64 characters', 'bad_request'],
  ])('with %i, code %s and message %j is %s', (status, error_code, message, what) => {
    expect(classifyCreateFailure(failure({ status, error_code, message }))).toMatchObject({ what });
  });
});

test.each<[string, string, ErroredLineKind]>([
  ['invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum', 'too_long'],
  ['invalid_request_error', 'input length and `max_tokens` exceed context limit: 1 + 2 > 2', 'too_long'],
  ['invalid_request_error', 'messages.1: tool_use ids were found without tool_result blocks', 'permanent'],
  ['request_too_large', '', 'too_long'],
  ['not_found_error', 'model: claude-x', 'permanent'],
  ['authentication_error', '', 'account'],
  ['permission_error', '', 'account'],
  ['billing_error', '', 'account'],
  ['rate_limit_error', '', 'overloaded'],
  ['timeout_error', '', 'overloaded'],
  ['api_error', '', 'retryable'],
  ['overloaded_error', '', 'overloaded'],
  ['unknown_error', '', 'retryable'],
])('an errored line with %s (%j) is %s', (type, message, kind) => {
  expect(classifyErroredLine({ error_type: type, message, error_code: null })).toBe(kind);
});

test.each<[string, string, ErroredLineKind]>([
  ['invalid_request_error', 'organization_on_hold', 'account'],
  ['invalid_request_error', 'cmek_key_disabled', 'account'],
  ['rate_limit_error', 'enforced_spend_limit_reached', 'account'],
  ['invalid_request_error', 'contract_spend_limit_reached', 'account'],
  ['invalid_request_error', 'something_new', 'permanent'],
  ['rate_limit_error', 'ramp_limit_exceeded', 'overloaded'],
])('an errored line with %s and the code %s is %s', (error_type, error_code, kind) => {
  expect(classifyErroredLine({ error_type, message: 'said so', error_code })).toBe(kind);
});
