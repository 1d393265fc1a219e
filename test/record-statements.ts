import { expect } from 'vitest';

// Before each test file: those that run statements of libs/db have them recorded for row-types.test.ts.
if (/\/(libs\/db|apps\/api|apps\/worker)\/test\//.test(expect.getState().testPath ?? ''))
  await import('../libs/db/test/row-types/record.ts');
