import { expect } from 'vitest';

// Before each test file: those that run statements of libs/db have them recorded for row-types.test.ts.
if (/\/(libs\/db\/test|apps\/(api|worker)\/test|test\/stack)\//.test(expect.getState().testPath ?? ''))
  await import('../libs/db/test/row-types/record.ts');
