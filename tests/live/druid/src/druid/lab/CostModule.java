package lab;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.Module;
import com.fasterxml.jackson.databind.jsontype.NamedType;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.google.inject.Binder;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.druid.initialization.DruidModule;
import org.apache.druid.segment.transform.RowFunction;
import org.apache.druid.segment.transform.Transform;

/**
 * A transform that takes a given time for each record, asleep, so that what a task can do is known and costs no CPU:
 * {"type": "labCost", "name": "cost", "micros": 500}. Its column must be a dimension, or Druid never asks for it.
 */
public class CostModule implements DruidModule {
    @Override
    public void configure(Binder binder) {}

    @Override
    public List<? extends Module> getJacksonModules() {
        return List.of(new SimpleModule("LabCost").registerSubtypes(new NamedType(Cost.class, "labCost")));
    }

    /** One task has one of these, and one thread that reads. */
    public static class Cost implements Transform {
        @JsonProperty public final String name;
        @JsonProperty public final long micros;
        private long owedNanos;

        public Cost(@JsonProperty("name") String name, @JsonProperty("micros") long micros) {
            this.name = name;
            this.micros = micros;
        }

        @Override
        public String getName() {
            return name;
        }

        @Override
        public Set<String> getRequiredColumns() {
            return Set.of();
        }

        @Override
        public RowFunction getRowFunction() {
            return row -> {
                owedNanos += TimeUnit.MICROSECONDS.toNanos(micros);
                // sleeps are inexact: short ones are saved up, and what one took too long is taken off the next
                if (owedNanos > 2_000_000) {
                    long began = System.nanoTime();
                    LockSupport.parkNanos(owedNanos);
                    owedNanos -= System.nanoTime() - began;
                }
                return "";
            };
        }
    }
}
