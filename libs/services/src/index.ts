export { yieldEvery } from './yield-every.ts';
export { startEmbeddedPostgres } from './embedded-postgres.ts';
export { checkPostgres, explainPostgres, providePostgres } from './postgres.ts';
export {
  AUDIT_STATEMENT_MS,
  createPool,
  MIGRATION_STATEMENT_MS,
  STATEMENT_MS,
  type PoolOptions,
} from './pg-pool.ts';
export { checkRedis, findRedisServer, type RedisServer, startRedisServer } from './redis.ts';
export { type Container, dockerEngineAnswers, startRedisContainer } from './docker.ts';
export { directoryOwner, DirectoryInUseError, holdDirectory } from './directory-lock.ts';
export { keepKeyFile, type KeptKey } from './keep-key-file.ts';
export { findFreePort } from './free-port.ts';
export { liveness, openFileLog, openProcessLog, type LogStatus, type LogStream } from './log-stream.ts';
export { safeUrl } from './safe-url.ts';
export { startFailure } from './start-failure.ts';
export { createShutdown, type Shutdown } from './shutdown.ts';
