// One round a doWork(), while the phone charges on an unmetered network. Not compiled here: it needs AndroidX.
package com.example.app

import android.content.Context
import androidx.work.*
import io.tern.*
import java.io.File
import java.util.concurrent.TimeUnit

class TernWorker(context: Context, parameters: WorkerParameters) : Worker(context, parameters) {
    @Volatile private var client: TernClient? = null

    override fun doWork(): Result = try {
        val folder = File(applicationContext.filesDir, "tern")
        val made = TernClient.builder("https://tern.example:8443", folder)
            .transport(HttpsTransport(null)) // the class of docs/examples/java; null: the phone's CAs
            .data(Examples.read(applicationContext), null) // the app's own: a Dataset of its rows
            .build()
        made.use {
            client = it
            if (isStopped) it.cancel() // stopped before `client` was set
            if (!it.isEnrolled) it.enroll(inputData.getString("code")!!)
            val round = it.runRound()
            if (round.outcome == Round.Outcome.CANCELLED) Result.retry() else Result.success()
        }
    } catch (failure: TernException) {
        // No network, a busy aggregator: WorkManager comes back by its own backoff. Others, such as a used-up code, do not pass.
        if (failure.isRetryable) Result.retry() else Result.failure()
    } finally {
        client = null
    }

    override fun onStopped() {
        client?.cancel()
    }

    companion object {
        /** Another code takes the place of a used-up one from the next night on. */
        fun schedule(context: Context, code: String) {
            val nightly = PeriodicWorkRequestBuilder<TernWorker>(1, TimeUnit.DAYS)
                .setConstraints(Constraints.Builder()
                    .setRequiredNetworkType(NetworkType.UNMETERED)
                    .setRequiresCharging(true)
                    .build())
                .setBackoffCriteria(BackoffPolicy.EXPONENTIAL, 1, TimeUnit.MINUTES) // a busy aggregator asks for up to a minute
                .setInputData(workDataOf("code" to code))
                .build()
            WorkManager.getInstance(context)
                .enqueueUniquePeriodicWork("tern", ExistingPeriodicWorkPolicy.UPDATE, nightly)
        }
    }
}
