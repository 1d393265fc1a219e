import { afterAll, describe, expect, test } from 'vitest';
import { openJailOrSkip } from './support.ts';

const opened = await openJailOrSkip();
const jail = opened!;
afterAll(() => opened?.close());

describe.skipIf(opened === undefined)('a source', () => {
  test('is described by its annotations and its docstring', async () => {
    const source = `
import json
from typing import Optional

def helper():
    return 1

def find_orders(customer: str, limit: int = 10, tags: Optional[list[str]] = None, *, exact: bool = False):
    """Finds the orders of a customer.

    Args:
        customer (str): Its name: as on
            the invoice.
        limit: Most orders.

    Returns:
        dict: The orders.
    """
    return json.dumps([])
`;
    expect(await jail.inspect(source, null)).toEqual({
      name: 'find_orders',
      description: 'Finds the orders of a customer.',
      parameters: [
        { name: 'customer', required: true },
        { name: 'limit', required: false },
        { name: 'tags', required: false },
        { name: 'exact', required: false },
      ],
      schema: {
        type: 'object',
        properties: {
          customer: { type: 'string', description: 'Its name: as on the invoice.' },
          limit: { type: 'integer', description: 'Most orders.' },
          tags: { type: 'array', items: { type: 'string' } },
          exact: { type: 'boolean' },
        },
        required: ['customer'],
      },
    });
    expect(await jail.inspect(source, 'helper')).toMatchObject({
      name: 'helper',
      schema: { properties: {} },
    });
  });

  test.each([
    ['str', { type: 'string' }],
    ['float', { type: 'number' }],
    ['"int"', { type: 'integer' }],
    ['list', { type: 'array' }],
    ['typing.List[int]', { type: 'array', items: { type: 'integer' } }],
    ['dict[str, float]', { type: 'object', additionalProperties: { type: 'number' } }],
    ['Dict', { type: 'object' }],
    ['int | None', { anyOf: [{ type: 'integer' }, { type: 'null' }] }],
    ['Optional[str]', { anyOf: [{ type: 'string' }, { type: 'null' }] }],
    ['Union[str, List[str]]', { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] }],
    ['Literal["a", "b"]', { type: 'string', enum: ['a', 'b'] }],
    ['Literal[1, "b"]', { enum: [1, 'b'] }],
    ['Annotated[int, "How many."]', { type: 'integer', description: 'How many.' }],
    ['Any', {}],
  ])('with the type %s has a schema', async (type, schema) => {
    expect(await jail.inspect(`def f(a: ${type}): pass`, null)).toMatchObject({
      schema: { properties: { a: schema } },
    });
  });

  test.each([
    ['a syntax error', 'def f(a: int):\n  return (', 2, /never closed|EOF|invalid syntax/],
    ['a package', 'def f():\n  import requests\n', 2, /requests is not in the standard library/],
    ['a module beside it', 'from .x import y\ndef f(): pass', 1, /not in the standard library/],
    ['no function', 'x = 1', 1, /there is no function/],
    [
      'the agent of Letta',
      'def f(\n  agent_state: "AgentState", x: str): pass',
      2,
      /agent_state is not supported: take the values/,
    ],
    ['the client of Letta', 'def f(client): pass', 1, /client is not supported/],
    ['arguments without names', 'def f(*args): pass', 1, /\*args/],
    ['positional parameters', 'def f(a: int, /): pass', 1, /remove the \//],
  ])('with %s is refused with its line', async (_, source, line, problem) => {
    expect(await jail.inspect(source, null)).toMatchObject({
      line,
      problem: expect.stringMatching(problem) as string,
    });
  });

  test.each([
    ['without a type', 'def f(a): pass', /the parameter a has no type/],
    ['with a class', 'def f(a: Order): pass', /the type Order has no JSON Schema/],
    ['with an unreadable type', 'def f(a: "list["): pass', /not readable/],
  ])('%s has no schema, and the reason', async (_, source, problem) => {
    const found = await jail.inspect(source, null);
    expect(found).toMatchObject({
      name: 'f',
      schema_problem: { line: 1, problem: expect.stringMatching(problem) as string },
    });
    expect(found).not.toHaveProperty('schema');
  });

  test.each([
    ['nested deeply', `def f():\n  return ${'['.repeat(100_000)}`],
    ['of signs', '-'.repeat(200_000)],
    ['with a NUL', 'def f():\n  return "\0"'],
    ['of attributes', `def f():\n  return x${'.x'.repeat(50_000)}`],
  ])('%s is refused in time', async (_, source) => {
    expect(await jail.inspect(source, null)).toHaveProperty('problem');
  });

  test('is not run', async () => {
    expect(await jail.inspect('raise SystemExit(1)\ndef f(): pass', null)).toMatchObject({ name: 'f' });
    expect(await jail.inspect('def f(a: str = exit(1)): pass', null)).toMatchObject({ name: 'f' });
  });
});
