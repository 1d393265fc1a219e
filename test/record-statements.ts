import { expect } from 'vitest';

// Records the statements of test files that run statements of libs/db, for row-types.test.ts.
if (/\/(libs\/db\/test|apps\/(api|worker)\/test|test\/stack)\//.test(expect.getState().testPath ?? ''))
  (await import('../libs/db/test/row-types/record.ts')).recordStatements();
