// A Trainer on TensorFlow Lite: the app's .tflite has three signatures of its own, `set` (takes all tensors by name), `train`
// (takes x, y and learning_rate; returns loss) and `get` (returns all tensors). Not compiled and not run here.
package com.example.app

import io.tern.Model
import io.tern.Task
import io.tern.Trainer
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import org.tensorflow.lite.Interpreter

class TfliteTrainer(private val interpreter: Interpreter, private val batches: Batches) : Trainer {
    private lateinit var model: Model
    private lateinit var task: Task
    private lateinit var weights: FloatBuffer
    private var step = 0
    private var loss = 0f

    override fun open(model: Model) {
        this.model = model
    }

    override fun begin(task: Task, base: FloatBuffer, weights: FloatBuffer) {
        this.task = task
        this.weights = weights
        step = 0
        loss = 0f
        interpreter.runSignature(model.tensors.associate { it.name to slice(weights, it) }, mapOf(), "set")
    }

    override fun step(): Trainer.Result? {
        val (x, y) = batches.draw(task.seed, task.round, task.client, step, task.batchSize)
        val found = FloatBuffer.allocate(1)
        interpreter.runSignature(mapOf("x" to x, "y" to y, "learning_rate" to floatArrayOf(task.learningRate)),
            mapOf("loss" to found), "train")
        loss += found.get(0)
        if (++step < task.localSteps) return null
        val tensors = model.tensors.associate { it.name to floats(it.count) }
        interpreter.runSignature(mapOf(), tensors, "get")
        for (tensor in model.tensors) {
            val values = tensors.getValue(tensor.name)
            values.rewind()
            slice(weights, tensor).put(values)
        }
        return Trainer.Result(batches.examples, step, loss / step)
    }

    private fun floats(count: Int) =
        ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder()).asFloatBuffer()

    private fun slice(values: FloatBuffer, tensor: Model.Tensor): FloatBuffer {
        val part = values.duplicate()
        part.position(tensor.offset)
        part.limit(tensor.offset + tensor.count)
        return part.slice()
    }
}
