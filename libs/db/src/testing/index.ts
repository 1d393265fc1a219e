export { lendTestDatabase } from './lend-database.ts';
export { openTestDatabase, type TestDatabase } from './test-database.ts';
export { acceptBatch } from './accept-batch.ts';
